"""What tests share: noise, builders, drivers of other programs, pages; a module for each."""

import sys

# with it jsonschema builds a grammar when it is imported, for two seconds, and checks the formats "iri" and
# "iri-reference", which no schema here names
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
