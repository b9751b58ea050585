from .reproducing import check_records as check_records, reproduce as reproduce
