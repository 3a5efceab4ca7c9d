"""The client side of a service: a connection, and the shipping of journals to it.

connection   requests to a service, with its token
shipment     one run on its way to a service
shipper      all runs of a home on their way to a service, one after the other or in a thread
"""
