"""How to cite the paper and this software: `CITATION.cff`, the README and report pages have the same text."""

from adaptkry.common.version import VERSION

PAPER_BIBTEX = r"""@inproceedings{huang2024adaptkry,
  author    = {Huang, Keke and Cao, Wencai and Ta, Hoang and Xiao, Xiaokui and Li{\`o}, Pietro},
  title     = {Optimizing Polynomial Graph Filters: A Novel Adaptive {Krylov} Subspace Approach},
  booktitle = {Proceedings of the ACM Web Conference 2024 (WWW '24)},
  year      = {2024},
  publisher = {ACM},
  doi       = {10.1145/3589334.3645705}
}"""
SOFTWARE_BIBTEX = f"""@software{{adaptkry,
  author  = {{{{The adaptkry developers}}}},
  title   = {{adaptkry: learning with polynomial graph filters}},
  version = {{{VERSION.partition(".dev")[0]}}},
  year    = {{2026}}
}}"""
BIBTEX = f"{PAPER_BIBTEX}\n\n{SOFTWARE_BIBTEX}"
