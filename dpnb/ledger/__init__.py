"""All state of the ledger: charges, releases, accounts and limits, in memory and on disk."""
