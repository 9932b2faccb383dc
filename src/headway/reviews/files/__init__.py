"""Which files of a tree are reviewed, and in which parts. Reads the tree and git; sends and writes nothing.

selection        walks the tree: the files to review, and every other file with the reason why it is left out
named_paths      the files, folders and patterns that a user names
path_patterns    patterns of paths, in the language of .gitignore
ignore_rules     the .gitignore files of a tree
source_bytes     one file: its bytes, their hash, its lines
unsuitable       files that are not worth a review: lock files, generated and minified ones
splitting        a long file → parts that fit
definitions      where the definitions of a file begin, by tree-sitter
changes          the files that differ from a git revision, or are staged, and their diffs
instructions     what the reviewer is told because of where a file is
"""
