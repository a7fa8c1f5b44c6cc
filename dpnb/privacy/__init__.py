"""Privacy loss, noise, noise paths and the ledger."""
