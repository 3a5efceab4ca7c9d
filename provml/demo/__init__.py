"""The demo: a small network learns digits with several settings; the runs are recorded, validated and queried.

digits      the data, drawn here, and its filters
network     the network, in plain Python
settings    the settings, and the recorded trainings
frameworks  the same trainings with Keras, PyTorch or scikit-learn
report      validation and the eight questions
"""
