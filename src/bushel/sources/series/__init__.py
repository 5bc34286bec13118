"""Windows of sensor series."""
