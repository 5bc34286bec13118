"""Looking at data: a local page, and a report, of any TFRecord dataset and of runs. Never writes into either."""
