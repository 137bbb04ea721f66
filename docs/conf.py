"""The pages of docs/ as a site: `make site` writes it, offline, and fails at a broken link."""

project = "privaudit"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "privaudit"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
exclude_patterns = ["site"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# Shell and TOML blocks are shown as they are typed.
highlight_language = "none"
# Links to tests, code and files beside docs/ are for readers of the repository.
myst_url_schemes = {"http": None, "https": None}
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
nitpicky = False
