"""Pages for the browser: runs, their curves, what differs, where things come from, and questions without SPARQL.

A page is a function of a `Viewer` (a store, with what pages share) and the parameters of its address. The service and
the static site render the same pages: only the links differ.

viewer      the store, the table of runs that pages share, and what depends on them
links       addresses of pages: paths of the service, or files of a site
render      templates, pictures and static files
live_job    work that takes longer than a page may
*_page      the pages
routes      the pages as routes of the service
site        the pages as files
"""
