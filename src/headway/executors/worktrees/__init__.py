"""A git worktree and a branch for each unit of an agent: made, repaired, read and removed.

git_command      runs git: no hooks, no prompts, no settings of the surrounding shell
repository       which repository a directory belongs to, and the lock that serialises changes of its worktrees
safe_names       an id of a unit → a name for a folder and a branch
unit_worktrees   the worktrees of one job, and the record of each
changes          what a unit changed in its worktree: diff, commits, status
collected_files  files of a unit's directory that are kept with its result
unit_directory   an adapter around the adapter of a program: it gives each unit its directory
"""
