"""Prints the prompt backwards, and the first variable."""

import json
import sys

assert sys.argv[1] == "--quiet"
prompt, options, context = sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
sys.stdout.write(f"{prompt[::-1]} | {next(iter(context['vars']))} | {prompt}\n")
