"""Work beside the caller: in threads, ahead of need, and in processes."""
