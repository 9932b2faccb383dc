"""What is wrong with a job, and what to do: in the words of the commands, with the command and the action of the page."""
