"""What the tests of PROV-CONSTRAINTS stand on."""
