"""Who watches an allocation now."""
