"""What is measured: vectors of counts and sums over public regions."""
