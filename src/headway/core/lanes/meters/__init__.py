"""What limits a lane: one virtual-time bucket for each limit, how deep it is, and windows that start at fixed moments."""
