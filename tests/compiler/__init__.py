"""What the compiler makes of ontologies, seen through the modules, shapes, contexts and pages that it writes."""
