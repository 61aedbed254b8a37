"""What an honest but curious party learns from the numbers that a protocol gives it; attacks see
arrays, not protocol objects."""
