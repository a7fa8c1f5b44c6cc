"""What tests share: noise, builders, drivers of other programs, pages; a module for each."""
