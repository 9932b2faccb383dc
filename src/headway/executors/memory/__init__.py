"""What processes take of the machine's memory: process_memory measures, memory_gauge remembers for one provider."""
