"""What several commands share: flags, settings and the store, running a job, printing, interrupts."""
