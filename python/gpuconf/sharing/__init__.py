"""What several processes of a machine share: the ledger of leases."""
