"""Evidence: sign the ledger of a home, and hand out a run with what proves that it was not changed.

signing   sign the ledger with an SSH key or an Ed25519 key, and check signatures
package   write the evidence of a run as a ZIP file, which a script without provml can check
"""

from provml.evidence.package import write_evidence
from provml.evidence.signing import SignatureCheck, attach_anchor, check_signatures, sign_ledger

__all__ = ["SignatureCheck", "attach_anchor", "check_signatures", "sign_ledger", "write_evidence"]
