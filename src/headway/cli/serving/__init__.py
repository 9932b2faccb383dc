"""The commands of engines that wait for jobs: serve, submit."""
