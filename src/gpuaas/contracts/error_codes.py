"""The error catalogue: every code that can leave the API, the kind of fault it is, and the sentence that explains it.
A code is never renamed and never means something else later."""

from enum import StrEnum

from gpuaas.kit import errors as kind


class Code(StrEnum):
    # the request itself
    REQUEST_MALFORMED = "request_malformed"
    REQUEST_INVALID = "request_invalid"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TIMEOUT = "body_timeout"
    CONTENT_TYPE_UNSUPPORTED = "content_type_unsupported"
    CONTENT_ENCODING_UNSUPPORTED = "content_encoding_unsupported"
    CURSOR_REFUSED = "cursor_refused"
    ROUTE_MISSING = "route_missing"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    # who you are and what you may
    CREDENTIAL_MISSING = "credential_missing"
    CREDENTIAL_INVALID = "credential_invalid"
    CREDENTIAL_EXPIRED = "credential_expired"
    CREDENTIAL_REVOKED = "credential_revoked"
    PERMISSION_DENIED = "permission_denied"
    OPERATION_NOT_IN_ALLOW_LIST = "operation_not_in_allow_list"
    ACCOUNT_DISABLED = "account_disabled"
    # idempotency and load
    IDEMPOTENCY_KEY_REQUIRED = "idempotency_key_required"
    IDEMPOTENCY_KEY_INVALID = "idempotency_key_invalid"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    REQUEST_IN_PROGRESS = "request_in_progress"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    DEPENDENCY_UNAVAILABLE = "dependency_unavailable"
    INTERNAL = "internal"
    # identity
    ORG_MISSING = "org_missing"
    ORG_NAME_TAKEN = "org_name_taken"
    ORG_IS_PERSONAL = "org_is_personal"
    ORG_NOT_EMPTY = "org_not_empty"
    ORG_HAS_MONEY = "org_has_money"
    ORG_LIMIT = "org_limit"
    PROJECT_MISSING = "project_missing"
    PROJECT_NAME_TAKEN = "project_name_taken"
    PROJECT_LIMIT = "project_limit"
    PROJECT_IN_USE = "project_in_use"
    MEMBER_MISSING = "member_missing"
    MEMBER_EXISTS = "member_exists"
    LAST_OWNER = "last_owner"
    ROLE_ABOVE_YOURS = "role_above_yours"
    INVITATION_MISSING = "invitation_missing"
    INVITATION_EXISTS = "invitation_exists"
    INVITATION_NOT_FOR_YOU = "invitation_not_for_you"
    SERVICE_ACCOUNT_MISSING = "service_account_missing"
    SERVICE_ACCOUNT_NAME_TAKEN = "service_account_name_taken"
    SERVICE_ACCOUNT_LIMIT = "service_account_limit"
    SERVICE_ACCOUNT_KEY_MISSING = "service_account_key_missing"
    SERVICE_ACCOUNT_KEY_LIMIT = "service_account_key_limit"
    OPERATION_UNKNOWN = "operation_unknown"
    SSH_KEY_MISSING = "ssh_key_missing"
    SSH_KEY_INVALID = "ssh_key_invalid"
    SSH_KEY_EXISTS = "ssh_key_exists"
    SSH_KEY_LIMIT = "ssh_key_limit"
    USER_MISSING = "user_missing"
    SELF_CHANGE_REFUSED = "self_change_refused"
    LOGIN_FAILED = "login_failed"
    LOGIN_STATE_UNKNOWN = "login_state_unknown"
    REFRESH_REFUSED = "refresh_refused"
    REDIRECT_REFUSED = "redirect_refused"
    # the built-in issuer
    ISSUER_ACCOUNT_MISSING = "issuer_account_missing"
    ISSUER_ACCOUNT_EXISTS = "issuer_account_exists"
    PASSWORD_REFUSED = "password_refused"  # noqa: S105 # a code, not a password
    PASSWORD_WRONG = "password_wrong"  # noqa: S105 # a code, not a password
    PASSWORD_ELSEWHERE = "password_elsewhere"  # noqa: S105 # a code, not a password
    # policy
    POLICY_KEY_MISSING = "policy_key_missing"
    POLICY_VALUE_REFUSED = "policy_value_refused"
    POLICY_GUARDRAIL = "policy_guardrail"
    POLICY_OVERRIDE_MISSING = "policy_override_missing"
    POLICY_PLATFORM_ONLY = "policy_platform_only"
    POLICY_LEVEL_REFUSED = "policy_level_refused"
    # audit
    AUDIT_ENTRY_MISSING = "audit_entry_missing"
    AUDIT_EXPORT_OFF = "audit_export_off"
    # events
    DEAD_LETTER_MISSING = "dead_letter_missing"
    STATE_MOVE_REFUSED = "state_move_refused"
    # certificates of nodes
    BOOTSTRAP_TOKEN_REFUSED = "bootstrap_token_refused"  # noqa: S105 # a code, not a token
    CSR_REFUSED = "csr_refused"
    CERTIFICATE_MISSING = "certificate_missing"
    CERTIFICATE_ENDED = "certificate_ended"
    CERTIFICATE_LIMIT = "certificate_limit"
    # nodes
    NODE_MISSING = "node_missing"
    NODE_NAME_TAKEN = "node_name_taken"
    NODE_IN_USE = "node_in_use"
    NODE_NOT_QUARANTINED = "node_not_quarantined"
    PROBE_REFUSED = "probe_refused"
    AGENT_STATE_ROLLED_BACK = "agent_state_rolled_back"
    ARTIFACT_MISSING = "artifact_missing"
    ARTIFACT_VERSION_TAKEN = "artifact_version_taken"
    ARTIFACT_TOO_LARGE = "artifact_too_large"
    ARTIFACT_DAMAGED = "artifact_damaged"
    TASK_MISSING = "task_missing"
    TASK_REPORTED = "task_reported"
    TASK_ENDED = "task_ended"
    TASK_QUEUE_FULL = "task_queue_full"
    SLOT_QUARANTINED = "slot_quarantined"
    SLOT_NOT_QUARANTINED = "slot_not_quarantined"
    SLOT_DISPUTED = "slot_disputed"
    # inventory
    SKU_MISSING = "sku_missing"
    SKU_NAME_TAKEN = "sku_name_taken"
    SKU_PRICE_EXISTS = "sku_price_exists"
    SLOT_MISSING = "slot_missing"
    FLOW_MISSING = "flow_missing"
    FLOW_ENDED = "flow_ended"
    FLOW_NOT_CANCELLABLE = "flow_not_cancellable"
    ALLOCATION_MISSING = "allocation_missing"
    ALLOCATION_NAME_TAKEN = "allocation_name_taken"
    ALLOCATION_REFUSED = "allocation_refused"
    ALLOCATION_ENDED = "allocation_ended"
    ALLOCATION_RELEASING = "allocation_releasing"
    ALLOCATION_LIFETIME = "allocation_lifetime"
    ALLOCATION_NOT_ACTIVE = "allocation_not_active"
    ALLOCATION_NOT_STOPPED = "allocation_not_stopped"
    ALLOCATION_NOT_WAITING = "allocation_not_waiting"
    FORCE_RELEASE_LATER = "force_release_later"
    FORCE_RELEASE_EXHAUSTED = "force_release_exhausted"
    CAPACITY_MISSING = "capacity_missing"
    QUOTA_EXCEEDED = "quota_exceeded"
    SSH_KEY_REQUIRED = "ssh_key_required"
    CERTIFICATE_OF_RELEASE_MISSING = "certificate_of_release_missing"
    ORPHAN_MISSING = "orphan_missing"
    ORPHAN_IN_USE = "orphan_in_use"
    QUOTA_MISSING = "quota_missing"
    PERIOD_REFUSED = "period_refused"
    BALANCE_TOO_LOW = "balance_too_low"
    BALANCE_EMPTY = "balance_empty"
    STANDING_PAUSE_REFUSED = "standing_pause_refused"
    BUDGET_MISSING = "budget_missing"
    BUDGET_REFUSED = "budget_refused"
    BUDGET_SPENT = "budget_spent"
    POSTING_KEY_REUSED = "posting_key_reused"
    MONEY_HOLD_MISSING = "money_hold_missing"
    MONEY_HOLD_OVER = "money_hold_over"
    LEDGER_TRANSACTION_MISSING = "ledger_transaction_missing"
    LEDGER_REVERSED_ALREADY = "ledger_reversed_already"
    LEDGER_REVERSAL_FINAL = "ledger_reversal_final"
    ADJUSTMENT_MISSING = "adjustment_missing"
    INVOICE_MISSING = "invoice_missing"
    ADJUSTMENT_OWN = "adjustment_own"
    # notifications
    NOTIFICATION_MISSING = "notification_missing"
    NOTIFICATION_KIND_MISSING = "notification_kind_missing"
    NOTIFICATION_MANDATORY = "notification_mandatory"
    EMAIL_MISSING = "email_missing"
    # payments
    PAYMENT_MISSING = "payment_missing"
    PAYMENT_AMOUNT_REFUSED = "payment_amount_refused"
    PAYMENT_CURRENCY_REFUSED = "payment_currency_refused"
    PAYMENT_PROVIDER_AWAY = "payment_provider_away"
    PAYMENT_PROVIDER_REFUSED = "payment_provider_refused"
    PAYMENTS_NOT_SET_UP = "payments_not_set_up"
    REFUND_MISSING = "refund_missing"
    REFUND_TOO_LARGE = "refund_too_large"
    REFUND_OWN = "refund_own"
    WEBHOOK_SIGNATURE_REFUSED = "webhook_signature_refused"
    GPU_MODEL_UNKNOWN = "gpu_model_unknown"
    SKU_PRICE_INSTANT_REFUSED = "sku_price_instant_refused"
    SKU_COUNTS_REFUSED = "sku_counts_refused"


C = Code
CATALOGUE: dict[Code, tuple[type[kind.Fault], str]] = {
    C.REQUEST_MALFORMED: (kind.Invalid, "The request could not be read as what this operation takes."),
    C.REQUEST_INVALID: (kind.Refused, "The request was read, but a value in it is not acceptable."),
    C.BODY_TOO_LARGE: (kind.TooLarge, "The body is larger than this operation takes."),
    C.BODY_TIMEOUT: (kind.Invalid, "The body did not arrive in time. Send it again, faster or smaller."),
    C.CONTENT_TYPE_UNSUPPORTED: (kind.WrongType, "Send the body as application/json."),
    C.CONTENT_ENCODING_UNSUPPORTED: (kind.WrongType, "Send the body without a content encoding."),
    C.CURSOR_REFUSED: (kind.Invalid, "The cursor was not made for this list. Start again without it."),
    C.ROUTE_MISSING: (kind.Missing, "There is nothing at this path. See /api/docs."),
    C.METHOD_NOT_ALLOWED: (kind.NotAllowed, "This path does not take this method; Allow lists those it takes."),
    C.CREDENTIAL_MISSING: (kind.Unauthenticated, "Send an access token or a service-account key as Bearer."),
    C.CREDENTIAL_INVALID: (kind.Unauthenticated, "The credential is not one we know. Log in again."),
    C.CREDENTIAL_EXPIRED: (kind.Unauthenticated, "The credential has expired. Refresh it or log in again."),
    C.CREDENTIAL_REVOKED: (kind.Unauthenticated, "The credential was revoked. Log in again."),
    C.PERMISSION_DENIED: (kind.Denied, "Your role does not include this permission. Ask an admin or owner."),
    C.OPERATION_NOT_IN_ALLOW_LIST: (kind.Denied, "This service account's allow-list does not hold the operation."),
    C.ACCOUNT_DISABLED: (kind.Denied, "This account is disabled. Ask the operator."),
    C.IDEMPOTENCY_KEY_REQUIRED: (kind.Invalid, "Every change needs an Idempotency-Key header; a random UUID does."),
    C.IDEMPOTENCY_KEY_INVALID: (kind.Invalid, "An Idempotency-Key is 1 to 200 visible ASCII characters."),
    C.IDEMPOTENCY_KEY_REUSED: (kind.Refused, "This Idempotency-Key was used with another request. Use a new one."),
    C.REQUEST_IN_PROGRESS: (kind.Conflict, "The same request is being worked on. Try again shortly."),
    C.RATE_LIMITED: (kind.Limited, "Too many requests. Wait as long as Retry-After says."),
    C.OVERLOADED: (kind.Unavailable, "Too many requests are waiting. Try again as Retry-After says."),
    C.DEPENDENCY_UNAVAILABLE: (kind.Unavailable, "Something we need is away. Try again as Retry-After says."),
    C.INTERNAL: (kind.Broken, "Something failed on our side. The correlation id tells the operator what."),
    C.ORG_MISSING: (kind.Missing, "There is no such organisation, or you are not in it."),
    C.ORG_NAME_TAKEN: (kind.Conflict, "An organisation of this name exists. Choose another name."),
    C.ORG_IS_PERSONAL: (kind.Conflict, "A personal organisation has one member and stays. Create another one."),
    C.ORG_HAS_MONEY: (
        kind.Conflict,
        "The organisation has money, owes some, or is still to be charged. Have its operator settle that first.",
    ),
    C.ORG_NOT_EMPTY: (kind.Conflict, "The organisation still has projects. Delete them first."),
    C.ORG_LIMIT: (kind.Conflict, "You own as many organisations as allowed. Delete one first."),
    C.PROJECT_MISSING: (kind.Missing, "There is no such project, or you are not in its organisation."),
    C.PROJECT_NAME_TAKEN: (kind.Conflict, "The organisation has a project of this name. Choose another name."),
    C.PROJECT_LIMIT: (kind.Conflict, "The organisation has as many projects as allowed. Delete one first."),
    C.PROJECT_IN_USE: (kind.Conflict, "The project has live allocations. Release them first."),
    C.MEMBER_MISSING: (kind.Missing, "There is no such member here."),
    C.MEMBER_EXISTS: (kind.Conflict, "This person is a member already. Change the role instead."),
    C.LAST_OWNER: (kind.Conflict, "An organisation keeps at least one owner. Make another member owner first."),
    C.ROLE_ABOVE_YOURS: (kind.Denied, "You cannot give, change or remove a role above your own."),
    C.INVITATION_MISSING: (kind.Missing, "There is no such invitation, or it has expired or was used."),
    C.INVITATION_EXISTS: (kind.Conflict, "This address has an open invitation. Revoke it first."),
    C.INVITATION_NOT_FOR_YOU: (kind.Denied, "The invitation is for another email address. Log in with that one."),
    C.SERVICE_ACCOUNT_MISSING: (kind.Missing, "There is no such service account here."),
    C.SERVICE_ACCOUNT_NAME_TAKEN: (kind.Conflict, "A service account of this name exists. Choose another name."),
    C.SERVICE_ACCOUNT_LIMIT: (kind.Conflict, "The organisation has as many service accounts as allowed. Delete one."),
    C.SERVICE_ACCOUNT_KEY_MISSING: (kind.Missing, "The service account has no such key."),
    C.SERVICE_ACCOUNT_KEY_LIMIT: (kind.Conflict, "The service account has as many live keys as allowed. Revoke one."),
    C.OPERATION_UNKNOWN: (kind.Refused, "The allow-list names an operation that does not exist. See /api/docs."),
    C.SSH_KEY_MISSING: (kind.Missing, "You have no such SSH key."),
    C.SSH_KEY_INVALID: (kind.Refused, "This is not an SSH public key we accept; the reason says why."),
    C.SSH_KEY_EXISTS: (kind.Conflict, "You have this SSH key already."),
    C.SSH_KEY_LIMIT: (kind.Conflict, "You have as many SSH keys as allowed. Delete one first."),
    C.USER_MISSING: (kind.Missing, "There is no such user."),
    C.SELF_CHANGE_REFUSED: (kind.Conflict, "You cannot do this to yourself. Ask another admin."),
    C.LOGIN_FAILED: (kind.Unauthenticated, "The identity provider did not accept the login. Start it again."),
    C.LOGIN_STATE_UNKNOWN: (kind.Refused, "This login was not started here, or too long ago. Start it again."),
    C.REFRESH_REFUSED: (kind.Unauthenticated, "The session has ended. Log in again."),
    C.REDIRECT_REFUSED: (kind.Refused, "The redirect address is not one that is allowed."),
    C.ISSUER_ACCOUNT_MISSING: (kind.Missing, "There is no such login at the built-in issuer."),
    C.ISSUER_ACCOUNT_EXISTS: (kind.Conflict, "This address has a login. Reset its password instead."),
    C.PASSWORD_REFUSED: (kind.Refused, "The new password is too short, too long or too easy to guess."),
    C.PASSWORD_WRONG: (kind.Denied, "The current password is not right."),
    C.PASSWORD_ELSEWHERE: (kind.Conflict, "Your password is kept by your identity provider. Change it there."),
    C.POLICY_KEY_MISSING: (kind.Missing, "There is no policy of this name. List them to see all."),
    C.POLICY_VALUE_REFUSED: (kind.Refused, "The value does not fit the policy's type or bounds."),
    C.POLICY_GUARDRAIL: (kind.Conflict, "A guardrail set above does not allow this value."),
    C.POLICY_OVERRIDE_MISSING: (kind.Missing, "The policy is not overridden here."),
    C.POLICY_PLATFORM_ONLY: (kind.Denied, "Only the platform sets this policy. Ask its operator."),
    C.POLICY_LEVEL_REFUSED: (kind.Refused, "This policy has one value for all above this level. Set it there."),
    C.AUDIT_ENTRY_MISSING: (kind.Missing, "There is no such audit entry here."),
    C.AUDIT_EXPORT_OFF: (kind.Denied, "The policy audit.export_allowed is off here. Ask who may change it."),
    C.DEAD_LETTER_MISSING: (kind.Missing, "There is no such dead letter."),
    C.STATE_MOVE_REFUSED: (kind.Conflict, "It is not in a state from which this is possible. Look at it again."),
    C.BOOTSTRAP_TOKEN_REFUSED: (kind.Unauthenticated, "The token is unknown, expired or used. Ask for a new one."),
    C.CSR_REFUSED: (kind.Refused, "The certificate request is not one we sign; the reason says why."),
    C.CERTIFICATE_MISSING: (kind.Missing, "There is no such certificate of a node."),
    C.CERTIFICATE_ENDED: (kind.Conflict, "The certificate has expired or was revoked before."),
    C.CERTIFICATE_LIMIT: (kind.Limited, "The node was given too many certificates lately. Wait."),
    C.NODE_MISSING: (kind.Missing, "There is no such node."),
    C.NODE_NAME_TAKEN: (kind.Conflict, "A node of this name exists. Choose another name."),
    C.NODE_IN_USE: (kind.Conflict, "Somebody uses the node. Drain it first."),
    C.NODE_NOT_QUARANTINED: (kind.Conflict, "The node is not in quarantine."),
    C.PROBE_REFUSED: (kind.Refused, "This address is not one that may be probed; the reason says why."),
    C.AGENT_STATE_ROLLED_BACK: (kind.Conflict, "The agent has lost its memory. Its node has to be enrolled again."),
    C.ARTIFACT_MISSING: (kind.Missing, "There is no such artifact of an agent, or none of this version is published."),
    C.ARTIFACT_VERSION_TAKEN: (kind.Conflict, "An artifact of this version is published. Retire it first."),
    C.ARTIFACT_TOO_LARGE: (kind.Refused, "The artifact is larger than the policy nodes.agent_artifact_max_mib says."),
    C.ARTIFACT_DAMAGED: (kind.Conflict, "What was uploaded is not the file its digest and size say. Upload it again."),
    C.TASK_REPORTED: (kind.Conflict, "Another result of this task was accepted. Results are accepted once."),
    C.TASK_ENDED: (kind.Conflict, "The task has ended."),
    C.TASK_QUEUE_FULL: (kind.Conflict, "The node has as many unfinished tasks as allowed. Wait or cancel some."),
    C.TASK_MISSING: (kind.Missing, "There is no such task."),
    C.SLOT_QUARANTINED: (kind.Conflict, "The slot is in quarantine already."),
    C.SLOT_NOT_QUARANTINED: (kind.Conflict, "The slot is not in quarantine."),
    C.SLOT_DISPUTED: (
        kind.Conflict,
        "Another node claims the same GPU. Inspect, disable or remove that node first.",
    ),
    C.SKU_MISSING: (kind.Missing, "There is no such SKU. List them to see all."),
    C.SKU_NAME_TAKEN: (kind.Conflict, "A SKU of this name exists. Choose another name."),
    C.SKU_PRICE_EXISTS: (kind.Conflict, "A price from this instant on is set already. Choose another instant."),
    C.SLOT_MISSING: (kind.Missing, "There is no such slot."),
    C.FLOW_MISSING: (kind.Missing, "There is no such flow."),
    C.FLOW_ENDED: (kind.Conflict, "The flow has ended, or is past the point where this is possible."),
    C.FLOW_NOT_CANCELLABLE: (kind.Conflict, "This flow cannot be stopped half-way: it only ever makes things safe."),
    C.ALLOCATION_MISSING: (kind.Missing, "There is no such allocation here."),
    C.ALLOCATION_NAME_TAKEN: (kind.Conflict, "A live allocation of this name exists in the project. Choose another."),
    C.ALLOCATION_REFUSED: (kind.Refused, "The SKU is not sold in this way; the reason says in which."),
    C.ALLOCATION_ENDED: (kind.Conflict, "The allocation has ended."),
    C.ALLOCATION_RELEASING: (kind.Conflict, "The allocation is being released already."),
    C.ALLOCATION_LIFETIME: (kind.Conflict, "The allocation cannot last longer than the policy allows. See explain."),
    C.ALLOCATION_NOT_ACTIVE: (kind.Conflict, "The allocation is not active."),
    C.ALLOCATION_NOT_STOPPED: (kind.Conflict, "The allocation is not stopped."),
    C.ALLOCATION_NOT_WAITING: (kind.Conflict, "The allocation does not wait in the queue."),
    C.FORCE_RELEASE_LATER: (kind.Conflict, "The last attempt was just now. Wait before the next."),
    C.FORCE_RELEASE_EXHAUSTED: (
        kind.Conflict,
        "It was tried as often as the policy allows; the node is in quarantine. Look at the node.",
    ),
    C.CAPACITY_MISSING: (kind.Conflict, "No GPUs are free that fit. Ask to wait in the queue, or for something else."),
    C.QUOTA_EXCEEDED: (kind.Conflict, "This would exceed the quota. Release something, or ask for a larger quota."),
    C.SSH_KEY_REQUIRED: (kind.Refused, "Without an SSH key nobody could log in. Add one, or send one along."),
    C.CERTIFICATE_OF_RELEASE_MISSING: (kind.Missing, "There is no such sanitisation certificate here."),
    C.ORPHAN_MISSING: (kind.Missing, "There is no such orphan, or it was reclaimed."),
    C.ORPHAN_IN_USE: (kind.Conflict, "A live allocation has this. Release it; nothing of it is touched here."),
    C.QUOTA_MISSING: (kind.Missing, "No quota of this kind is set here."),
    C.BALANCE_EMPTY: (kind.Conflict, "The balance is used up: nothing new begins. Top it up, then ask again."),
    C.STANDING_PAUSE_REFUSED: (kind.Refused, "A pause ends in the future, at most 90 days from now."),
    C.BUDGET_MISSING: (kind.Missing, "There is no such budget here."),
    C.BUDGET_REFUSED: (
        kind.Refused,
        "A budget has a soft limit, a hard one, or both; the soft one is not above the other.",
    ),
    C.BUDGET_SPENT: (
        kind.Conflict,
        "The project has spent its budget of this month. Raise it, or wait for the next month.",
    ),
    C.PERIOD_REFUSED: (kind.Refused, "That time cannot be asked for; the reason says which end is wrong."),
    C.BALANCE_TOO_LOW: (kind.Conflict, "The balance, less what is set aside, does not cover this. Top it up."),
    C.POSTING_KEY_REUSED: (kind.Conflict, "This key was used for another amount, account or subject."),
    C.MONEY_HOLD_MISSING: (kind.Missing, "There is no such hold on money here."),
    C.MONEY_HOLD_OVER: (kind.Conflict, "The hold was charged, given back, or its time is over. Take a new one."),
    C.LEDGER_TRANSACTION_MISSING: (kind.Missing, "There is no such transaction of an organisation."),
    C.LEDGER_REVERSED_ALREADY: (kind.Conflict, "The transaction was reversed, or somebody has proposed to. See it."),
    C.LEDGER_REVERSAL_FINAL: (kind.Conflict, "A reversal is not reversed. Adjust the balance, with a reason."),
    C.INVOICE_MISSING: (kind.Missing, "There is no such invoice here. They are made after a month has ended."),
    C.ADJUSTMENT_MISSING: (kind.Missing, "There is no such adjustment."),
    C.ADJUSTMENT_OWN: (kind.Denied, "Somebody else has to approve what you proposed."),
    C.NOTIFICATION_MISSING: (kind.Missing, "You have no such notification."),
    C.NOTIFICATION_KIND_MISSING: (kind.Missing, "There is no such kind of notification. List your preferences."),
    C.NOTIFICATION_MANDATORY: (kind.Refused, "What costs you running work is always sent by email."),
    C.EMAIL_MISSING: (kind.Missing, "There is no such email."),
    C.PAYMENT_MISSING: (kind.Missing, "There is no such payment here."),
    C.PAYMENT_AMOUNT_REFUSED: (kind.Refused, "A payment is of whole cents, within the limits that policy sets."),
    C.PAYMENT_CURRENCY_REFUSED: (kind.Refused, "Payments are taken in currencies with two decimal places."),
    C.PAYMENT_PROVIDER_AWAY: (
        kind.Unavailable,
        "The payment provider does not answer. Repeat the request with the same key: nothing is charged twice.",
    ),
    C.PAYMENT_PROVIDER_REFUSED: (
        kind.Conflict,
        "The payment provider refused this. The operator finds why in the log.",
    ),
    C.PAYMENTS_NOT_SET_UP: (kind.Conflict, "No payment provider is set up here. Ask the operator for credit."),
    C.REFUND_MISSING: (kind.Missing, "There is no such refund."),
    C.REFUND_TOO_LARGE: (kind.Refused, "Of this payment there is not as much left to refund."),
    C.REFUND_OWN: (kind.Denied, "Somebody else has to approve the refund you proposed."),
    C.WEBHOOK_SIGNATURE_REFUSED: (
        kind.Invalid,
        "The body was not signed by the payment provider with a secret known here, or over 300 seconds ago.",
    ),
    C.GPU_MODEL_UNKNOWN: (kind.Refused, "No SKU has GPUs of this model. List them to see all."),
    C.SKU_PRICE_INSTANT_REFUSED: (kind.Refused, "A price begins now or later, within ten years."),
    C.SKU_COUNTS_REFUSED: (kind.Refused, "A count of GPUs is larger than what a node has."),
}
