"""The simulator: the real scheduler against virtual providers in virtual time. Hours take seconds."""
