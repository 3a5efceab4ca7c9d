"""Are the ontologies sound? Reasoning in test_owl.py, pitfalls of modelling and wording in test_pitfalls.py."""
