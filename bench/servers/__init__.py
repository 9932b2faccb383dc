"""Real servers as they come: nginx, LiteLLM's proxy and llama.cpp's server, each started on loopback and stopped again."""
