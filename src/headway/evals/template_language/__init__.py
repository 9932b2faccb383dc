"""The language of templates in evals: read by Jinja's parser, evaluated here as Nunjucks evaluates it. PURE."""
