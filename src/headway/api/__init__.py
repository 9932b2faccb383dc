"""The Python side: any callable, any SDK, through the same lanes. The public names are in `headway` itself."""
