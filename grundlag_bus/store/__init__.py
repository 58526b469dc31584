"""Databases: how they are opened and migrated, and the one that ledgers and runs keep their records in."""
