"""The fault suite behind `grundlag-bus chaos`: calls of all kinds under faults, and what became of each."""
