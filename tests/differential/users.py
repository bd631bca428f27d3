"""The users that s3-tests signs with: the same names and keys at the origin and at Forebay.

So one and the same signed request can go to either. What differs is who the origin thinks is
asking: itself knows each user, Forebay signs all it forwards with the main user's key.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class User:
    """`section` is where s3-tests' configuration looks for it; `tenant` is Ceph's word."""

    section: str
    uid: str
    name: str
    access_key: str
    secret_key: str
    tenant: str = ""

    @property
    def email(self):
        return f"{self.uid}@example.com"

    @property
    def qualified_uid(self):
        return f"{self.tenant}${self.uid}" if self.tenant else self.uid


MAIN = User(
    "s3 main", "main", "Main User", "MAINMAINMAINMAINMAIN", "main-secret-main-secret-main-secret-main"
)
ALT = User("s3 alt", "alt", "Alt User", "ALTALTALTALTALTALTAL", "alt-secret-alt-secret-alt-secret-alt-sec")
TENANT = User(
    "s3 tenant", "tenanted", "Tenanted User", "TENANTTENANTTENANTTE",
    "tenant-secret-tenant-secret-tenant-secre", tenant="other",
)  # fmt: skip
# Read by s3-tests' set-up, used by no test that is chosen here.
IAM = User("iam", "iam", "Iam User", "IAMIAMIAMIAMIAMIAMIA", "iam-secret-iam-secret-iam-secret-iam-sec")
IAM_ROOT = User(
    "iam root", "root", "Root User", "ROOTROOTROOTROOTROOT", "root-secret-root-secret-root-secret-root"
)
IAM_ALT_ROOT = User(
    "iam alt root",
    "altroot",
    "Alt Root User",
    "ALTROOTALTROOTALTROO",
    "alt-root-secret-alt-root-secret-alt-root",
)

EVERYBODY = [MAIN, ALT, TENANT, IAM, IAM_ROOT, IAM_ALT_ROOT]
