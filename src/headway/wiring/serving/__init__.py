"""Engines that wait for jobs (`headway serve`), and how jobs get to them (`headway submit`)."""
