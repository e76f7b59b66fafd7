"""What a shop knows."""
