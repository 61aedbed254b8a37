"""What makes and keeps the kit, and is no part of it."""
