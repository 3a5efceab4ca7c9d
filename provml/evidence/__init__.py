"""Evidence: sign the ledger of a home, remove secrets from it, and hand out a run with proof that it was not changed.

signing   sign the ledger with an SSH key or an Ed25519 key, and check signatures
scrub     remove a secret that was recorded, and leave a trace in the ledger
package   write the evidence of a run as a ZIP file, which a script without provml can check
"""

from provml.evidence.package import write_evidence
from provml.evidence.scrub import ScrubReport, scrub
from provml.evidence.signing import SignatureCheck, attach_anchor, check_signatures, sign_ledger

__all__ = [
    "ScrubReport",
    "SignatureCheck",
    "attach_anchor",
    "check_signatures",
    "scrub",
    "sign_ledger",
    "write_evidence",
]
