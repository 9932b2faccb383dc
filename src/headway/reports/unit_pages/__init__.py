"""Units as a dashboard shows them: a row of a list, a page with the conversation, and the texts by which they are found."""
