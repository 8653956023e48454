"""What tests share beyond fixtures."""
