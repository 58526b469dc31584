"""The processes of the fleet, which may die at any moment, and whoever starts them again."""
