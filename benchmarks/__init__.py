"""Speed: one file per question, one JSON row per run in results/benchmarks.jsonl."""
