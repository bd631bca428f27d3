"""Which of s3-tests' tests are run, in which group, and which are left out for what reason."""

import re

FILES = ("s3tests/functional/test_headers.py", "s3tests/functional/test_s3.py")

# Subjects that no reader of a training set meets; Forebay forwards them and knows none of them.
OTHER_SUBJECTS = re.compile(
    r"logging|post_object|lifecycle|policy|object_lock|sse_kms|sse_s3|ownership|_acl_grants|policies"
)

# A test belongs to the first group that has a pattern for its name, or its file's; to none, and
# is not run, if no group has.
GROUPS = {
    "header": [r"test_headers\.py::"],
    "range": [r"::test_ranged_"],
    "conditional": [r"_if_?(none_?)?(match|modified|unmodified|nonmatch)", r"_conditional_write_"],
    "checksum": [r"checksum|cksum|object_attributes|bad_md5"],
    "sse-c": [r"sse_c_|::test_encrypted_transfer_|::test_encryption_key_no_sse_c"],
    "copy": [r"::test_object_copy_|::test_multipart_copy_|_copy_obj|suspended_copy|part_copy"],
    "multipart": [r"multipart|_get_part"],
    "presign": [r"::test_object_(raw|presigned)_", r"::test_object_(put_authenticated|anon_put)"],
    "version": [r"::test_version(ing|ed)_", r"::test_delete_marker_(nonv|v|s)"],
    "list": [r"::test_bucket(_list|_listv2|v2|s|_notexist)", r"::test_basic_key_count", r"_special"],
    "write": [r"::test_(multi_object|object_(write|delete|set|metadata|create))", r"::test_100_"],
    "read": [r"::test_(object_(read|head|requestid)|atomic_|non_multipart)", r"expected_bucket_owner"],
    "bucket": [r"::test_bucket_(head|get_location|create|delete|recreate)"],
    "tagging": [r"_tags$|_tagging$"],
}  # fmt: skip

# Why a test is left out. Each is left out by its name, so that a new one is run.
OTHER_USERS = "is about a second user of the origin, where Forebay has one identity a rule"
ANONYMOUS = "sends a request without a signature, which Forebay with keys refuses"
SIGNATURE_2 = "signs its headers by version 2, which AWS has given up; Forebay takes 2 in URLs only"
AWS_DECIDES = "asks for RGW's 403 where X-Amz-Expires is out of range; AWS and Forebay say 400"
CRASHES = "ends RGW 16.2.15 with a failed assertion"

LEFT_OUT = {
    **dict.fromkeys(
        [
            "test_bucket_create_exists_nonowner",
            "test_list_multipart_upload_owner",
            "test_object_copy_canned_acl",
            "test_object_copy_not_owned_bucket",
            "test_object_copy_not_owned_object_bucket",
            "test_object_presigned_put_object_with_acl_tenant",
            "test_object_raw_get_x_amz_expires_not_expired_tenant",
        ],
        OTHER_USERS,
    ),
    **dict.fromkeys(
        [
            "test_100_continue",
            "test_bucket_list_objects_anonymous",
            "test_bucket_list_objects_anonymous_fail",
            "test_bucket_listv2_objects_anonymous",
            "test_bucket_listv2_objects_anonymous_fail",
            "test_expected_bucket_owner",
            "test_object_anon_put",
            "test_object_anon_put_write_access",
            "test_object_delete_key_bucket_gone",
            "test_object_raw_get",
            "test_object_raw_get_bucket_acl",
            "test_object_raw_get_bucket_gone",
            "test_object_raw_get_object_acl",
            "test_object_raw_get_object_gone",
        ],
        ANONYMOUS,
    ),
    **dict.fromkeys(
        [
            "test_bucket_create_bad_authorization_invalid_aws2",
            "test_bucket_create_bad_date_after_today_aws2",
            "test_bucket_create_bad_date_before_epoch_aws2",
            "test_bucket_create_bad_date_before_today_aws2",
            "test_bucket_create_bad_date_empty_aws2",
            "test_bucket_create_bad_date_invalid_aws2",
            "test_bucket_create_bad_date_none_aws2",
            "test_bucket_create_bad_ua_empty_aws2",
            "test_bucket_create_bad_ua_none_aws2",
            "test_object_create_bad_authorization_incorrect_aws2",
            "test_object_create_bad_authorization_invalid_aws2",
            "test_object_create_bad_contentlength_mismatch_below_aws2",
            "test_object_create_bad_date_after_end_aws2",
            "test_object_create_bad_date_before_epoch_aws2",
            "test_object_create_bad_date_before_today_aws2",
            "test_object_create_bad_date_empty_aws2",
            "test_object_create_bad_date_invalid_aws2",
            "test_object_create_bad_date_none_aws2",
            "test_object_create_bad_md5_invalid_garbage_aws2",
            "test_object_create_bad_ua_empty_aws2",
            "test_object_create_bad_ua_none_aws2",
        ],
        SIGNATURE_2,
    ),
    **dict.fromkeys(
        [
            "test_object_raw_get_x_amz_expires_out_max_range",
            "test_object_raw_get_x_amz_expires_out_positive_range",
            "test_object_raw_put_authenticated_expired",
        ],
        AWS_DECIDES,
    ),
    "test_upload_part_copy_percent_encoded_key": CRASHES,
}

_FUNCTION = re.compile(r"^def (test_\w+)", re.MULTILINE)


def chosen(checkout, only=""):
    """The tests to run, as pytest takes them, each with its group."""
    tests = {}
    for file in FILES:
        for name in _FUNCTION.findall((checkout / file).read_text(encoding="utf-8")):
            test = f"{file}::{name}"
            group = group_of(test)
            if group and name not in LEFT_OUT and re.search(only, test):
                tests[test] = group
    return tests


def group_of(test):
    if OTHER_SUBJECTS.search(test):
        return None
    for group, patterns in GROUPS.items():
        if any(re.search(pattern, test) for pattern in patterns):
            return group
    return None


def group_of_name(tests, name):
    """The group of a test by its name in the outcomes, which may have parameters."""
    function = "::" + name.partition("[")[0]
    return next(group for test, group in tests.items() if test.endswith(function))
