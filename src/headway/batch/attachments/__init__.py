"""Attachments: images and PDFs that go with a request.

references       what a row or `--attach` names: paths and addresses
media            what a file is, by its content: its type, its pixels, its pages
pdf_pages        how many pages a PDF has, roughly
attached_file    a file, checked and hashed
input_tokens     how many tokens an attachment is, as each provider counts
provider_limits  how many and how large attachments may be, for each API
request_parts    attachments in a request, as each API wants them
row_attachments  the rows of an input with their attachments
input_scan       the digest of all attached files of an input

`ask` and others that have one request use `attached_file.read_file` and `row_attachments.attach`.
"""
