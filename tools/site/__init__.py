"""The read-only site: `make site` builds build/site from what is committed, executing nothing."""
