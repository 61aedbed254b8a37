"""Slides of the narratives: `make slides` builds build/slides from what is committed, executing
nothing."""
