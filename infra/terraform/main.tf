# Two buckets and two roles: the audit reads the lake and writes the warehouse; people read the
# warehouse. No role can do both, and none can delete a version.

module "lake" {
  source          = "./bucket"
  name            = var.lake_bucket
  noncurrent_days = var.noncurrent_days
  expire          = { "${var.lake_prefix}/labels/" = var.label_retention_days }
}

module "audits" {
  source          = "./bucket"
  name            = var.audit_bucket
  noncurrent_days = var.noncurrent_days
  expire          = {}
}

locals {
  lake      = "${module.lake.arn}/${var.lake_prefix}/*"
  warehouse = "${module.audits.arn}/${var.warehouse_prefix}/*"
}

data "aws_iam_policy_document" "audit" {
  statement {
    sid       = "ReadLake"
    actions   = ["s3:GetObject"]
    resources = [local.lake]
  }

  statement {
    sid       = "ListLake"
    actions   = ["s3:ListBucket"]
    resources = [module.lake.arn]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["${var.lake_prefix}/*"]
    }
  }

  # DeleteObject: Delta Lake clears its temporary files and compacts; the bucket keeps versions.
  statement {
    sid       = "WriteWarehouse"
    actions   = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
    resources = [local.warehouse]
  }

  statement {
    sid       = "ListWarehouse"
    actions   = ["s3:ListBucket"]
    resources = [module.audits.arn]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["${var.warehouse_prefix}/*"]
    }
  }

  statement {
    sid       = "ReadLakeKey"
    actions   = ["kms:Decrypt"]
    resources = [module.lake.key_arn]
  }

  statement {
    sid       = "WriteWarehouseKey"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [module.audits.key_arn]
  }
}

data "aws_iam_policy_document" "audit_trust" {
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]

    principals {
      type        = "Federated"
      identifiers = [var.oidc_provider_arn]
    }

    condition {
      test     = "StringEquals"
      variable = "${var.oidc_issuer}:sub"
      values   = ["system:serviceaccount:${var.service_account}"]
    }

    condition {
      test     = "StringEquals"
      variable = "${var.oidc_issuer}:aud"
      values   = ["sts.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "audit" {
  name                 = "privaudit-audit"
  description          = "Reads the lake, writes the warehouse."
  assume_role_policy   = data.aws_iam_policy_document.audit_trust.json
  max_session_duration = 3600 * 6
}

resource "aws_iam_role_policy" "audit" {
  name   = "lake-read-warehouse-write"
  role   = aws_iam_role.audit.id
  policy = data.aws_iam_policy_document.audit.json
}

data "aws_iam_policy_document" "reader" {
  statement {
    sid       = "ReadWarehouse"
    actions   = ["s3:GetObject"]
    resources = [local.warehouse]
  }

  statement {
    sid       = "ListWarehouse"
    actions   = ["s3:ListBucket"]
    resources = [module.audits.arn]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["${var.warehouse_prefix}/*"]
    }
  }

  statement {
    sid       = "ReadWarehouseKey"
    actions   = ["kms:Decrypt"]
    resources = [module.audits.key_arn]
  }
}

data "aws_iam_policy_document" "reader_trust" {
  count = length(var.reader_principals) > 0 ? 1 : 0

  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "AWS"
      identifiers = var.reader_principals
    }
  }
}

resource "aws_iam_role" "reader" {
  count              = length(var.reader_principals) > 0 ? 1 : 0
  name               = "privaudit-reader"
  description        = "Reads the warehouse; never labels or models."
  assume_role_policy = data.aws_iam_policy_document.reader_trust[0].json
}

resource "aws_iam_role_policy" "reader" {
  count  = length(var.reader_principals) > 0 ? 1 : 0
  name   = "warehouse-read"
  role   = aws_iam_role.reader[0].id
  policy = data.aws_iam_policy_document.reader.json
}
