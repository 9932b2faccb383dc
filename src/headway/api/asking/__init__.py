"""Questions without an SDK: `headway.ask` and `headway.aask`, typed answers, and data frames (`headway.frame`)."""
