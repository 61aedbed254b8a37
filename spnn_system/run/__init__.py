"""What a run is to a role: its plan, its folder, what it may report, and what it keeps to go on."""
