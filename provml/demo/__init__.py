"""The demo: a small network learns digits for real in several settings; its runs are recorded, validated and asked.

digit      the data, drawn here, and its filters
network    the network, in plain Python
trial      the trainings, recorded
framework  the same with Keras, PyTorch or scikit-learn
tour       validation and the eight questions
"""
