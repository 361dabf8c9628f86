"""The one place that opens sockets for tools, and the tools fetch and web_scrape.

Nothing is loaded here: `client.py` and `dial.py` bring httpcore in, which most starts never need.
"""
